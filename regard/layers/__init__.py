"""The parts models are built of."""
