"""Serves the pages for people, in `lists/`, `session/`, `editing/` and `account/`; `html/` shows values."""
