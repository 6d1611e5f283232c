"""What a person wants of a model, and how well it was done."""
