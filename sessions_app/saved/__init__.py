"""What people keep of searching: named views."""
