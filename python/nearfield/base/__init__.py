"""What every part of nearfield stands on: files that people may edit, and the words for what is wrong in them."""
