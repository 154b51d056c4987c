# Record what R says, into r.json, and the data behind it, into r/. The tests do not need R. To run it again:
#
#     Rscript tests/golden/record_r.R
#
# It ran with R 4.2.2, rms 6.5-0, Hmisc 4.8-0 and pROC 1.18.0, all from Debian 12:
# apt-get install r-cran-rms r-cran-proc r-cran-jsonlite.
#
# Where the data in r/ come from:
#
#     asah.csv      written here: columns of aSAH, which pROC contains (Turck et al. 2010, doi 10.1007/s00134-009-1641-y)
#     valprob.csv   written here: the simulated data of the example of rms::val.prob
#     vignette.csv  written here: predictions for the simulated data of the vignette of CalibrationCurves
#     hoslem.csv    written here: the simulated data of the example of ResourceSelection::hoslem.test
#     niamey.csv    not written here: forecasts and outcomes of precip_Niamey_2016, a data set of reliabilitydiag (Vogel et
#                   al. 2021, doi 10.1029/2020GL091022; contains modified products of the ECMWF, CC BY 4.0). The file is
#                   tests/data/precip_Niamey_2016.csv in the source archive of the Python package scoringrules 0.10.0.
#     cancer.csv    not written here: simulated data of dcurves, from the Python package dcurves 1.1.7 (Apache 2.0):
#                   df_binary, and casecontrol of df_case_control, which has the same rows.

suppressMessages({library(rms); library(pROC)})

here <- dirname(sub("--file=", "", grep("--file=", commandArgs(), value = TRUE)))
exact <- function(x) sprintf("%.17g", x)
keep <- function(name, ...) {
  write.csv(data.frame(...), file.path(here, "r", name), row.names = FALSE, quote = FALSE, eol = "\n")
}
recorded <- list(versions = list(R = as.character(getRversion()), rms = as.character(packageVersion("rms")),
                                 pROC = as.character(packageVersion("pROC"))))

# ---- pROC

data(aSAH)
poor <- as.integer(aSAH$outcome == "Poor")
keep("asah.csv", poor = poor, female = as.integer(aSAH$gender == "Female"), wfns = as.integer(aSAH$wfns),
     s100b = aSAH$s100b, ndka = aSAH$ndka)
curves <- lapply(list(wfns = as.integer(aSAH$wfns), s100b = aSAH$s100b, ndka = aSAH$ndka),
                 function(marker) roc(poor, marker, quiet = TRUE))
for (name in names(curves)) {
  limits <- as.numeric(ci.auc(curves[[name]]))
  recorded[[paste("pROC", name)]] <- list(auc = limits[2], low = limits[1], high = limits[3],
                                          variance = var(curves[[name]]))
}

# ---- rms

statistics <- c("Dxy", "U:Chi-sq", "U:p", "Brier", "Intercept", "Slope", "E90", "Eavg", "S:z", "S:p")
val <- function(p, y) as.list(val.prob(p, y, pl = FALSE)[statistics])

set.seed(1)
n <- 200
x1 <- runif(n)
x2 <- runif(n)
x3 <- runif(n)
y <- ifelse(runif(n) <= plogis(2 * (x1 - .5)), 1, 0)
fit <- lrm(y ~ x1 + x2 + x3, subset = 1:100)
fitted_risk <- plogis(predict(fit, data.frame(x1, x2, x3)[101:200, ]))
y <- y[101:200]
x2 <- x2[101:200]
keep("valprob.csv", fitted = exact(fitted_risk), x2 = exact(x2), y = y)
recorded[["val.prob fitted"]] <- val(fitted_risk, y)
recorded[["val.prob x2"]] <- val(x2, y)

# ---- CalibrationCurves: its data, which base R simulates; and the smoothers of R

set.seed(1782)
simulated <- function(n) {
  x <- replicate(4, rnorm(n))
  y <- rbinom(n, 1, plogis(cbind(1, x) %*% c(0.1, 0.5, 1.2, -0.75, 0.8)))
  data.frame(y, x)
}
train <- simulated(1000)
test <- simulated(500)
p <- unname(predict(glm(y ~ ., binomial, train), test, type = "response"))
y <- test$y
keep("vignette.csv", p = exact(p), y = y)
recorded[["val.prob vignette"]] <- val(p, y)

gaps <- function(curve) {
  off <- abs(p - curve)
  list(ici = mean(off), e50 = median(off), e90 = unname(quantile(off, 0.9)))
}
direct <- loess.control(surface = "direct")
recorded[["loess"]] <- gaps(fitted(loess(y ~ p)))
recorded[["loess degree=1"]] <- gaps(fitted(loess(y ~ p, degree = 1)))
recorded[["loess degree=1 direct"]] <- gaps(fitted(loess(y ~ p, degree = 1, control = direct)))
recorded[["lowess"]] <- gaps(approx(lowess(p, y, iter = 0), xout = p, ties = mean)$y)
recorded[["lowess delta=0"]] <- gaps(approx(lowess(p, y, iter = 0, delta = 0), xout = p, ties = mean)$y)

# ---- ResourceSelection: its data, which base R simulates

set.seed(123)
x <- rnorm(500)
y <- rbinom(500, 1, plogis(0.1 + 0.5 * x))
keep("hoslem.csv", p = exact(fitted(glm(y ~ x, binomial))), y = y)

writeLines(jsonlite::toJSON(recorded, auto_unbox = TRUE, digits = NA, pretty = 1), file.path(here, "r.json"))
