"""Does what the law requires for users of an app: exports what is stored about one, erases it, and keeps nothing for
too long."""
