/* An accelerator for a page. Before this: machine.c; MOST, rows of the largest memory. */

#define EXPORT(name) __attribute__((export_name(#name)))

static struct machine *page;
static uint32_t page_rows[MOST * LIMBS];

EXPORT(page_data) uint32_t *page_data(void) { return page_rows; }
EXPORT(page_frame) uint32_t *page_frame(void) { return (uint32_t *)&page->out; }
EXPORT(page_words) int page_words(void) { return sizeof page->out / sizeof(uint32_t); }
EXPORT(page_new) void page_new(void) { free(page), page = machine_new(); }
EXPORT(page_write) void page_write(uint32_t mask, uint32_t rows) { machine_write(page, mask, 0, rows, page_rows); }
EXPORT(page_start) void page_start(void) { machine_start(page, 0); }
EXPORT(page_cycle) void page_cycle(void) { tick(page); }  /* its outputs are the frame */
