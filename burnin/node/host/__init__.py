"""What the machine says of itself, without a driver: PCI and sysfs, the kernel, its modules, its software. One reader, bounded, over any root."""
