"""What people and programs start: the command line, the Dify tools and the plugin's packing."""
