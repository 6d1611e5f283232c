"""Writing with a model, one token at a time."""
