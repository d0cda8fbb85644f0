"""What a device's own system tells: ethtool, sysfs, SONiC's databases and commands."""
