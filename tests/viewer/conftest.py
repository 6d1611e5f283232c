"""Pages in the browser, of what a file of tests serves: one for each test, and one for a whole file."""

import pytest
from page_fixtures import opened_page


@pytest.fixture
def page(browser, served):
    with opened_page(browser, served) as opened:
        yield opened


@pytest.fixture(scope="module")
def one_page(browser, served):
    with opened_page(browser, served) as opened:
        opened.set_default_timeout(5000)
        yield opened
