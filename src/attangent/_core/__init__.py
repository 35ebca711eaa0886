"""What every room uses: errors, checks, files, random streams, parallel work, progress, display."""
