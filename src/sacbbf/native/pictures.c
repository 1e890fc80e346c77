/* Pictures on their way into a network: shifted, less their mean, multiplied, as floats in blocks of pixels.

   One pass over the bytes and one over the floats, where separate operations take a pass each. OpenMP's threads are
   those of the process that loads this: the library is not linked with any of its own. */

#include <stdint.h>
#include <string.h>

enum { COLUMNS = 4 }; /* of a block: four bytes are copied as one */

static inline int64_t within(int64_t number, int64_t last) { return number < 0 ? 0 : number > last ? last : number; }

/* One picture of `planes` planes into `rows` x COLUMNS pixels a block, (height / rows, width / COLUMNS) blocks of
   (plane, row, column). It is inlined, so that sizes which are constants where it is called are constants here. */
static inline __attribute__((always_inline)) void picture(const uint8_t *image, int64_t plane_stride, int64_t top,
                                                          int64_t left, float factor, float *out, int planes,
                                                          int height, int width, int pad, int rows) {
    const int blocks = width / COLUMNS, count = planes * height * width;
    uint8_t pixels[count], line[width + 2 * pad];
    for (int plane = 0; plane < planes; plane++)
        for (int y = 0; y < height; y++) {
            const uint8_t *from = image + plane * plane_stride + within(y + top - pad, height - 1) * width;
            memset(line, from[0], pad);
            memcpy(line + pad, from, width);
            memset(line + pad + width, from[width - 1], pad);
            uint8_t *to = pixels + ((y / rows) * blocks * planes * rows + plane * rows + y % rows) * COLUMNS;
            for (int block = 0; block < blocks; block++)
                memcpy(to + block * planes * rows * COLUMNS, line + left + block * COLUMNS, COLUMNS);
        }
    uint32_t sum = 0;
    for (int pixel = 0; pixel < count; pixel++) sum += pixels[pixel];
    const float mean = (float)((double)sum / count);
    for (int pixel = 0; pixel < count; pixel++) out[pixel] = ((float)pixels[pixel] - mean) * factor;
}

/* `number` pictures, each cropped at its offsets (row, column) in 0 .. 2 * pad from edges that are replicated. */
void pictures(const uint8_t *images, int64_t image_stride, int64_t plane_stride, const int64_t *offsets,
              const float *factors, float *out, int64_t number, int planes, int height, int width, int pad, int rows,
              int threads) {
    const int64_t size = (int64_t)planes * height * width;
    const int atari = planes == 4 && height == 84 && width == 84 && pad == 4;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t index = 0; index < number; index++) {
        const uint8_t *image = images + index * image_stride;
        const int64_t top = within(offsets[2 * index], 2 * pad), left = within(offsets[2 * index + 1], 2 * pad);
        float *to = out + index * size;
        if (atari && rows == 4)
            picture(image, plane_stride, top, left, factors[index], to, 4, 84, 84, 4, 4);
        else if (atari && rows == 1)
            picture(image, plane_stride, top, left, factors[index], to, 4, 84, 84, 4, 1);
        else
            picture(image, plane_stride, top, left, factors[index], to, planes, height, width, pad, rows);
    }
}
