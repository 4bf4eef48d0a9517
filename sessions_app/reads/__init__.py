"""Every query over apps, users, sessions and events; and one way to follow what is new."""
