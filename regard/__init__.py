"""regard: attention models, to read, train, load, use and look inside."""

__version__ = "0.1.0"
