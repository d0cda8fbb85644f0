"""The built-in exporters. One file per kind; the file's name is the `kind` in the config."""
