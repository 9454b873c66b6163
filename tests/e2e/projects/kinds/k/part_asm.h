#define NAME add
