"""What pages share: layout, sliders, words for numbers, answers worked out beside the page."""
