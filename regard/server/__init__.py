"""Models over HTTP: the page, and an API of shapes that clients know."""
