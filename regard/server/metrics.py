"""What Prometheus asks for.  Labels are names of models and of routes only, so that their number stays what it is."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

CONTENT_TYPE = CONTENT_TYPE_LATEST
SECONDS = (0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 120)
TOKENS = (16, 64, 256, 1024, 4096, 16384, 65536)


class Metrics:
    def __init__(self) -> None:
        self.registry = own = CollectorRegistry()
        self.requests = Counter("regard_requests", "Requests answered.", ["route", "status"], registry=own)
        self.seconds = Histogram(
            "regard_request_seconds", "From a request to its last byte.", ["route"], registry=own, buckets=SECONDS
        )
        self.open = Gauge("regard_requests_open", "Requests that are worked on or wait.", registry=own)
        self.waiting = Gauge("regard_tokens_waiting", "Tokens that wait for a model.", ["model"], registry=own)
        self.batch = Histogram(
            "regard_batch_tokens", "Tokens computed together.", ["model"], registry=own, buckets=TOKENS
        )
        self.left = Counter("regard_clients_left", "Requests whose client left before the answer.", registry=own)

    def text(self) -> bytes:
        return generate_latest(self.registry)
