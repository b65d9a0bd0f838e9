"""What people look at: the dashboard's view model and templates."""
