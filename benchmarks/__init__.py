"""Benchmarks: regard beside its peers, with the same weights and the same texts, on this machine."""
