"""Marks for what the gate alone runs: it asks the real libraries, or needs Node."""

import os

import pytest

oracle = pytest.mark.skipif(os.environ.get("DTB_ORACLE") != "1", reason="asks the real libraries (DTB_ORACLE=1)")
node = pytest.mark.skipif(os.environ.get("DTB_NODE") != "1", reason="needs Node (DTB_NODE=1)")
