"""Looking inside: what a model attended to, as text and as pictures."""
