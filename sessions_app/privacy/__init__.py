"""Does for users of an app what the law asks: gives out what is kept of one, erases it, and keeps nothing for too long."""
