"""Files on disk, and the names of the tensors in them.  Knows no model."""
