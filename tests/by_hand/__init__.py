"""The app as a person uses it: a real window, driven by mouse and keyboard."""
