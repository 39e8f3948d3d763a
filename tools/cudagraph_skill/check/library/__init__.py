"""What library functions do to abstract values."""
