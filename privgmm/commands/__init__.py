"""The commands of the command line, one noun a module; `privgmm.cli` puts them together."""
