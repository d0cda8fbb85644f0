"""Claims over time: which one stands, what incident it belongs to, and what that costs."""
