"""Coverage-guided noise for every parser of bytes that come from outside."""
