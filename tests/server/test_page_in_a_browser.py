"""The page as the server serves it, in a real browser: a text is looked at, and nothing goes elsewhere."""

from __future__ import annotations

TEXT = "the cat </script><img src=x onerror=window.hacked=1>"


def test_the_page_looks_at_a_text(server, browser):
    page = browser.new_page()
    requests, faults = [], []
    page.on("request", lambda request: requests.append(request.url))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.goto(server.address)
    page.wait_for_selector("form option", state="attached")
    page.locator("form textarea, form input[type=text]").first.fill(TEXT)
    with page.expect_response(lambda answer: "/attention" in answer.url) as answer:
        page.locator("form button[type=submit], form button").first.click()
    assert answer.value.status == 200
    page.locator('button[aria-keyshortcuts="4"]').click()
    page.get_by_text("cat", exact=True).first.wait_for(timeout=15_000)
    assert page.evaluate("window.hacked") is None and not faults
    assert all(url.startswith((server.address, "data:", "blob:")) for url in requests)
    page.close()
