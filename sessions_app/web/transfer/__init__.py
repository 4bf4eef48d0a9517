"""Serves imports, exports, and the page that is one file."""
