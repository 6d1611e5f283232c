"""The runs behind the tables in docs/results: one short file each, and what turns their results into pages."""
