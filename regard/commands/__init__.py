"""The verbs: each a function one may call, and a command one may type."""
