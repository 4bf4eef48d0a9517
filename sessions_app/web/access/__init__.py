"""Signs people in and out, and serves the pages of people, groups, roles and tokens."""
