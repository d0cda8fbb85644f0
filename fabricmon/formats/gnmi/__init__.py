"""gNMI: live notifications and the files that gnmic, telegraf and scripts write of them."""
