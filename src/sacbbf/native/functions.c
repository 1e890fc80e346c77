/* What is fast only in one pass, and costs PyTorch many.

   OpenMP's threads are those of the process that loads this: the library is not linked with any of its own. A thread
   works on whole pictures or rows, so that no bit depends on how many there are. */

#include <math.h>
#include <stdint.h>
#include <string.h>

/* --- pictures on their way into a network: shifted, less their mean, multiplied, as floats in blocks of pixels --- */

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

/* --- rows (number, width) rescaled to [0, 1], and the gradient of it --- */

/* out = (rows - min) / (max - min + 1e-5), and each row's min, max and scale. */
void rescale(const float *rows, float *out, float *lows, float *highs, float *scales, int64_t number, int64_t width,
             int threads) {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t index = 0; index < number; index++) {
        const float *row = rows + index * width;
        float *to = out + index * width, low = row[0], high = row[0];
#pragma omp simd reduction(min : low) reduction(max : high)
        for (int64_t i = 0; i < width; i++) {
            low = row[i] < low ? row[i] : low;
            high = row[i] > high ? row[i] : high;
        }
        const float scale = 1.0f / ((high - low) + 1e-5f);
        for (int64_t i = 0; i < width; i++) to[i] = (row[i] - low) * scale;
        lows[index] = low;
        highs[index] = high;
        scales[index] = scale;
    }
}

/* The gradient at the rows from the one at what `rescale` made of them; `out` may be `grad`. Entries that tie for a
   row's minimum share its gradient evenly, and so do those that tie for its maximum. With `relu` the rows are a relu's
   answer, and the gradient is the one before it. */
void rescale_gradient(const float *grad, const float *rows, const float *scaled, const float *lows, const float *highs,
                      const float *scales, float *out, int64_t number, int64_t width, int relu, int threads) {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t index = 0; index < number; index++) {
        const float *g = grad + index * width, *row = rows + index * width, *z = scaled + index * width;
        float *to = out + index * width;
        const float low = lows[index], high = highs[index], scale = scales[index];
        float total = 0.0f, along = 0.0f, at_min = 0.0f, at_max = 0.0f; /* counts: exact up to 2^24 */
#pragma omp simd reduction(+ : total, along, at_min, at_max)
        for (int64_t i = 0; i < width; i++) {
            total += g[i];
            along += g[i] * z[i];
            at_min += row[i] == low ? 1.0f : 0.0f;
            at_max += row[i] == high ? 1.0f : 0.0f;
        }
        const float to_min = (along - total) * (scale / at_min), to_max = -along * (scale / at_max);
        const float floor = relu ? 0.0f : -__builtin_inff();
#pragma omp simd
        for (int64_t i = 0; i < width; i++) {
            float found = g[i] * scale;
            found += row[i] == low ? to_min : 0.0f;
            found += row[i] == high ? to_max : 0.0f;
            to[i] = row[i] <= floor ? 0.0f : found;
        }
    }
}

/* --- cosines of rows (number, width), and the gradient of them --- */

/* The cosine of each row of x with the same row of y, and the lengths of both, which are at least 1e-8. */
void cosine(const float *x, const float *y, float *x_lengths, float *y_lengths, float *cosines, int64_t number,
            int64_t width, int threads) {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t index = 0; index < number; index++) {
        const float *p = x + index * width, *q = y + index * width;
        float pp = 0.0f, qq = 0.0f, pq = 0.0f;
#pragma omp simd reduction(+ : pp, qq, pq)
        for (int64_t i = 0; i < width; i++) {
            pp += p[i] * p[i];
            qq += q[i] * q[i];
            pq += p[i] * q[i];
        }
        const float p_length = sqrtf(pp), q_length = sqrtf(qq);
        x_lengths[index] = p_length < 1e-8f ? 1e-8f : p_length;
        y_lengths[index] = q_length < 1e-8f ? 1e-8f : q_length;
        cosines[index] = pq / (x_lengths[index] * y_lengths[index]);
    }
}

/* The gradient at x, from the one at the cosines (number,) and what `cosine` wrote. */
void cosine_gradient(const float *grad, const float *x, const float *y, const float *x_lengths,
                     const float *y_lengths, const float *cosines, float *out, int64_t number, int64_t width,
                     int threads) {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t index = 0; index < number; index++) {
        const float *p = x + index * width, *q = y + index * width;
        float *to = out + index * width;
        const float share = grad[index] / x_lengths[index];
        const float along = share / y_lengths[index], back = share * cosines[index] / x_lengths[index];
        for (int64_t i = 0; i < width; i++) to[i] = q[i] * along - p[i] * back;
    }
}
