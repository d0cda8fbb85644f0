"""What is remembered from tick to tick: levels, onsets and breaks, the pace of jobs."""
