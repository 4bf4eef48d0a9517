"""Serves the pages for people, a folder or a module for each subject; `html/` shows values."""
