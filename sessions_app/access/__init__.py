"""Who is asking, what they may do, and how they prove it."""
