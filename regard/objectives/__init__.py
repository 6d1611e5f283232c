"""What a model is asked in training."""
