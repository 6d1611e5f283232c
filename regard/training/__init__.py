"""Training: one loop for every model and objective, exact over micro-batches, ranks and interruptions."""
