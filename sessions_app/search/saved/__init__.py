"""The searches that people keep: named views."""
