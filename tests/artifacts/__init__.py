"""Tests of artifacts: which ones were saved, and what is in them."""
