"""What is sent when: flows, jobs, and the loop that plays them."""
