"""The JSON API: handlers (`v1`), what they show (`view`, `history`), description, live events."""
