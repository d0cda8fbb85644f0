"""One tick as structure: the shape, who waits for whom, parallel ways, the lossless class."""
