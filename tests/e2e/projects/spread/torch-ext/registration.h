#error "the rules bring their own"
