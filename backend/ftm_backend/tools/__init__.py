"""Commands that work on files of any stage; each imports what it needs when it runs."""
