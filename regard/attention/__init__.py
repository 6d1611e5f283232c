"""The one attention, and the small objects that answer its questions."""
