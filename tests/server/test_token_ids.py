"""Token ids that a client sends are checked before a model sees them."""

import pytest


@pytest.mark.parametrize("path, field", [("/v1/completions", "prompt"), ("/v1/embeddings", "input")])
@pytest.mark.parametrize("id", [-1, 10**6, 2**40])
def test_ids_outside_the_vocabulary_are_refused(client, path, field, id):
    answer = client.post(path, json={field: [1, id]})
    assert answer.status_code in (400, 422)
    message = answer.json()["error"]["message"]
    assert "vocabulary" in message if id == 10**6 else message.startswith(field)
